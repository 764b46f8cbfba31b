"""The command line `mblob-pack`: one module per verb. Each imports what its verb needs when it
runs."""
