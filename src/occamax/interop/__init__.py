"""Other libraries: their networks as named arrays and a call, and what they found, in our words, and back. What arrays
are for, what goes together, compaction and export are read from the traced program, as for any network. A library is
imported when its file is first used."""
