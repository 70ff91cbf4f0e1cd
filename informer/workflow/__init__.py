"""From a file to forecasts and a report in one command."""
