"""Pure decisions of a participant: the rows that it has read go in, an answer or a step to carry out comes out."""
