"""What goes wrong by what the user gave: the errors of the tokenizer's modules."""


class Failure(Exception):
    """Wrong input: a message for the user."""

    code = 1


class Missing(Failure):
    """A package."""

    code = 4
