"""FATE's v1 documents: a DSL and a runtime conf."""
