"""Values of the product: jobs, tasks, statuses, reasons, errors. They import nothing but each other."""
