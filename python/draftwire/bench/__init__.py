"""What speculation gains: the same server with and without it, by upstream's own client."""
