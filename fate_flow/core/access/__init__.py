"""Who may do what: what a party may say about a job, what its jobs may use here, how a request proves its sender."""
