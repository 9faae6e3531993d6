"""What a third person checks without any server: files with proofs and with evidence, and whose signatures count."""
