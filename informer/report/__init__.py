"""HTML reports: content as plain data, collected from runs and forecasts, and written as a page."""
