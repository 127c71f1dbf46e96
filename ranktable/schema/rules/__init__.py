"""The rules, one file for each family; ``check`` runs those of a format."""
