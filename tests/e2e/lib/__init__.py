"""What the end-to-end tests share: starting things, waiting for things, reading bundles."""
