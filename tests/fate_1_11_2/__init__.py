"""The genuine FATE Flow 1.11.2 as the other party: what it said on the wire, and a peer that answers as it does.

`traffic/*.jsonl` was recorded on 22 Nov 2026 between one server of FATE Flow 1.11.2 (standalone, party 10000) and one
of ours (party 9999): a request and its answer a line, in both directions, in the order in which the requests arrived.
Paths and commands of its machine are left out, and of rows of tasks what describes its provider.
"""
