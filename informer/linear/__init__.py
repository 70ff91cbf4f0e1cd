"""Linear forecasts in closed form: one map per column, shrunk towards a shared map, fitted from moments.

features   inputs other than a column's own lookback window: calendar, other columns
moments    sums of products over windows, per column and block of time
solve      ridge regression with a separate penalty for each input
held_out   moments of each fold, within a time limit
select     choice of penalties and lookback window by leave-one-block-out cross-validation
average    choice of the maps to average
offered    options of the fit
fit        windows -> LinearForecast
forecast   the fitted maps as a torch module
residuals  errors on rows not used in the fit, for prediction intervals
fold       the fitted maps as weights of model=linear
saved_fit  the fit as saved with a run, to which later rows are added

covariate_effects: effects of what is known over the horizon, subtracted before the maps are fitted.
"""
