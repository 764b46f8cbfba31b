"""Files of machine code and what holds several of them: ELF and others, archives, tars. Nothing is
executed."""
