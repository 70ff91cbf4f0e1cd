"""Read files and tables as checked series.

The modules, in the order in which a file passes them:

    files, remote               which files a dataset has, also at addresses
    limits                      opens a file; it has a limit of bytes, lines, columns and cells
    dialect                     encoding, separator, marks of numbers and names of CSV text, from its first lines
    parse, cells                text as columns; words that mean a missing value, texts that repeat
    workbook                    the cells of a sheet
    table                       a table of one of these kinds, or of a frame, without notes and totals
    number_marks                thousands, decimals, units and brackets
    shapes                      odd layouts made plain, by one function for each
    date_text, numbered_times   which text and numbers may be times
    time_parts, time_columns    times in several columns made one; the column that has the times
    columns                     which columns are numbers, names of series, categories
    times, zones                the format of the times, and the times; time zones and clock changes
    rows                        rows with their places in the file, and the report of their problems
    frequency, closures, grid   the step of times; closed days and hours; times near a grid
    repairs, checks, outliers   requested repairs, then all checks
    series                      `Reading`, which does all this, and `Series`, what comes out
    split                       the parts of a series for training, validation and test
"""
