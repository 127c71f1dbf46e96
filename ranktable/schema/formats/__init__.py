"""The file formats that a rank table comes in, and how one is recognised."""
