"""Conversations for tests of data.chat: their chat template, their tokenizer, and the run that is recorded with TRL."""

import tokenizers
import transformers

CONTEXT, STEPS, RATE = 47, 6, 3e-3
SPECIAL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"]
# Without and with what marks the assistant's turns. The whitespace is that of many published templates.
TEMPLATE = """{%- for message in messages %}
    {{- '<|' + message['role'] + '|>' + message['content'] }}
    {%- if message['role'] == 'assistant' %}{{- '<|end|>' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""
MARKED = """{%- for message in messages %}
    {%- if message['role'] == 'assistant' %}
        {{- '<|assistant|>' }}
        {%- generation %}
        {{- message['content'] + '<|end|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- '<|' + message['role'] + '|>' + message['content'] }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""


def conversations(count=13):
    """Of one to three turns, some with a system message; one is longer than a row, one ends with a question."""
    things = ["river", "harbour", "library", "station", "garden"]
    result = []
    for i in range(count):
        messages = [{"role": "system", "content": "Answer in few words."}] if i % 3 == 0 else []
        for turn in range(1 + i % 3):
            thing = things[(i * 2 + turn) % 5]
            messages += [{"role": "user", "content": f"Where is the {thing} {i}?"},
                         {"role": "assistant", "content": f"The {thing} follows the old {things[(i + turn) % 5]}, caf\u00e9 {i * i % 17}."}]
        if i == 4:
            messages.append({"role": "user", "content": "And then?"})
        result.append(messages)
    return result


def make_tokenizer(template=TEMPLATE):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([message["content"] for messages in conversations(40) for message in messages], trainer)
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>")
    made.chat_template = template
    return made
