"""Networks of other libraries: named arrays and a call. What the arrays are for, what goes together, compaction and
export are read from the traced program, as for any network. A library is imported when its adapter is first used."""
