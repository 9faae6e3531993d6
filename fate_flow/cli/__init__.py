"""The commands flow and fate_flow: click, one module per noun."""
