"""The commands of the console script `informer`."""
