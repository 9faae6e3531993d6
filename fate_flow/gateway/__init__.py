"""The process that other parties reach: it speaks mutual TLS and passes their requests on to the application."""
