"""Closed-form linear forecasts: a map for each column, shrunk to one that all share, fitted from moments.

features   what the maps read apart from a column's own history: calendar, other columns, its own level
moments    sums of products over windows, kept per column and block of time
solve      ridge regression with a penalty of its own for each input
held_out   moments of each fold, within the time there is
select     strengths and lookback by leave-one-block-out
average    which of them to average
offered    what there is to choose from
fit        windows -> LinearForecast
forecast   the fitted maps, as a torch module
residuals  errors on rows that it was not fitted on, for intervals
fold       the same as the weights of model=linear
"""
