"""Random models that transformers makes."""

import torch
import transformers

LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}



def make_model(kind="Llama", seed=0, **fields):
    """With parameters large enough that a mistake shows in its logits."""
    torch.manual_seed(seed)
    shape = {"vocab_size": 301, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
             "num_key_value_heads": 2, "head_dim": 10, "max_position_embeddings": 256, "initializer_range": 0.15, **fields}
    config = getattr(transformers, kind + "Config")(**shape)
    model = getattr(transformers, kind + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):  # They begin as ones.
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model
