"""What each reader of the vendor would make of one file, wrong or not."""
