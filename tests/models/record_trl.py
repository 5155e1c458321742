"""Records what TRL makes of the conversations of chat_rows.py with assistant_only_loss: tokens, masks, and the losses of its trainer.

    python3 -m venv VENV && VENV/bin/pip install trl==1.16.0 transformers==5.23.0 torch==2.11.0
    VENV/bin/python tests/models/record_trl.py tests/golden/chat/trl.json

TRL brings some hundred MB of packages, so the test that compares (chat_test.py) reads the record.
"""

import json
import sys
import tempfile

import datasets
import tokenizers
import torch
import transformers
import trl
from chat_rows import CONTEXT, MARKED, RATE, STEPS, conversations, make_tokenizer
from random_models import make_model


def train(rows, **options):
    tokenizer = make_tokenizer(MARKED)
    model = make_model(vocab_size=len(tokenizer), max_position_embeddings=256, initializer_range=0.08)
    with tempfile.TemporaryDirectory() as folder:
        # The settings of AdamW and clipping are those of train_from_hf.cc.
        config = trl.SFTConfig(output_dir=folder, assistant_only_loss=True, packing=False, max_length=CONTEXT + 1, max_steps=STEPS, learning_rate=RATE,
                               lr_scheduler_type="constant", warmup_steps=0, adam_beta1=0.9, adam_beta2=0.99, adam_epsilon=1e-8, weight_decay=0.1,
                               max_grad_norm=1.0, logging_steps=1, report_to="none", use_cpu=True, bf16=False, gradient_checkpointing=False,
                               save_strategy="no", loss_type="nll", **options)
        trainer = trl.SFTTrainer(model=model, args=config, train_dataset=datasets.Dataset.from_list([{"messages": row} for row in rows]),
                                 processing_class=tokenizer)
        trainer.train()
        data = [{"input_ids": row["input_ids"], "counts": [int(label != -100) for label in row["labels"]] if "labels" in row else row["assistant_masks"]}
                for row in trainer.train_dataset]
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], data


def main():
    rows = conversations()
    losses, data = train(rows, per_device_train_batch_size=len(rows))
    # Micro-batches with different counts: TRL, too, divides by the count of the whole step.
    pieces, _ = train(rows, per_device_train_batch_size=5, gradient_accumulation_steps=3)
    versions = {module.__name__: module.__version__ for module in (trl, transformers, tokenizers, torch)}
    with open(sys.argv[1], "w", encoding="ascii") as file:
        json.dump({"versions": versions, "rows": data, "losses": losses, "losses_of_three_micro_batches": pieces}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
