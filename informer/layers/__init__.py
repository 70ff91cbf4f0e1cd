"""The parts of the network around attention."""
