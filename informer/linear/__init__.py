"""Linear forecasts in closed form: one map per column, shrunk towards a shared map, fitted from moments.

settings   inputs other than a column's own lookback window, strengths and options of a map
effects    effects of what is known over the horizon, subtracted before the maps are fitted
moments    sums of products over windows, per column and block of time
solve      ridge regression with a separate penalty for each input
select     choice of penalties and lookback window by leave-one-block-out cross-validation
fit        windows -> LinearForecast, with the choice of the maps to average
varying    maps whose weights vary with the state of the window
maps       the fitted maps as weights of model=linear, their errors on held-out rows, and the fit as saved with a run
"""
