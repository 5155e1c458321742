"""A Hugging Face tokenizer.json, and what its folder says of control tokens and of the end of a text."""

import json
import pathlib

from longhaul import file_content
from longhaul.failures import Failure, Missing

END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")


def load(path, control_tokens=False):
    """`control_tokens`: those that a text spells out become these tokens; otherwise they stay text."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Missing("needs the package tokenizers (pip install tokenizers)") from None
    path = pathlib.Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise Failure(f"{path}: {file_content.dangling_link(path) or 'there is no such file'}")
    with open(path, "rb") as file:
        content = file_content.content_of(file.read(file_content.HEAD_BYTES))
    if content[0] == "absent":
        raise Failure(f"{path}: {file_content.refusal(content)}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The package has no class of its own for it.
        raise Failure(f"{path}: is not a tokenizer.json, or needs a newer version of tokenizers (pip install -U tokenizers): {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if not control_tokens:
        if not hasattr(tokenizer, "encode_special_tokens"):
            raise Missing("needs a newer version of tokenizers, which keeps control tokens of a text as text (pip install -U tokenizers)")
        tokenizer.encode_special_tokens = True  # As text.
    return tokenizer


def folder_of(path):
    """The folder of a tokenizer that is given as a file or as its folder."""
    path = pathlib.Path(path)
    return path if path.is_dir() else path.parent


def named_token(tokenizer, option, wanted):
    """The id of a token that is given as itself or as its id; None: nothing."""
    if wanted == "none":
        return None
    found = tokenizer.token_to_id(wanted)
    if found is None and wanted.isdigit() and int(wanted) < tokenizer.get_vocab_size():
        found = int(wanted)
    if found is None:
        raise Failure(f"{option}: the tokenizer has no token '{wanted}'")
    return found


def declared_end(path):
    """What the folder of a tokenizer declares as the end of a text (as common/hf/hf_tokenizer.h): a token, its id; None: it does not say."""
    folder = folder_of(path)

    def content(name):
        try:
            found = json.loads((folder / name).read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise Failure(f"{folder / name}: {error}") from None
        if not isinstance(found, dict):
            raise Failure(f"{folder / name}: is not a JSON object")
        return found

    token = content("tokenizer_config.json").get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    if token is not None and not isinstance(token, str):
        raise Failure(f"{folder / 'tokenizer_config.json'}: eos_token: expected a token")
    for name in ("generation_config.json", "config.json"):
        ids = content(name).get("eos_token_id")
        ids = ids if isinstance(ids, list) else [] if ids is None else [ids]
        if any(not isinstance(one, int) or isinstance(one, bool) for one in ids):
            raise Failure(f"{folder / name}: eos_token_id: expected token ids")
        if ids:
            return token, ids[0]
    return token, None


def end_token(tokenizer, wanted, path):
    """The id after each document; None: nothing. `path`: of the tokenizer."""
    if wanted is not None:
        return named_token(tokenizer, "--eos", wanted)
    token, number = declared_end(path)
    found = tokenizer.token_to_id(token) if token else None
    if found is None and number is not None and number >= 0 and tokenizer.id_to_token(number) is not None:
        found = number
    if found is not None:
        return found
    if token or number is not None:
        what = " and ".join(([f"eos_token '{token}'"] if token else []) + ([f"eos_token_id {number}"] if number is not None else []))
        raise Failure(f"the tokenizer's folder declares {what}, which the tokenizer does not have: give --eos TOKEN, or --eos none")
    for name in END_OF_TEXT:
        found = tokenizer.token_to_id(name)
        if found is not None:
            return found
    raise Failure("the tokenizer has none of the usual tokens for the end of a text: give --eos TOKEN, or --eos none")


def control_tokens_of(tokenizer):
    """How they are spelled."""
    return [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special and token.content]
