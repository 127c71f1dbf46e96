"""What a sound rank table is: formats, rules, reading and writing; pure Python."""
