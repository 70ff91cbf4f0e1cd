"""`informer forecast`: from a file to forecasts and a report in one command."""
