"""HTML reports: their content as plain data, collecting it from runs and forecasts, and writing one page."""
