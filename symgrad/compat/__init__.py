"""Names and customs of other systems: programs written for them run by changing the import line."""
