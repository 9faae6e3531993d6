"""Who may do what about a job: authority, permissions, approvals, ceilings."""
