"""What every part needs: errors, files, the environment of the program, output of the commands."""
