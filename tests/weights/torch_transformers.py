"""Small random GPT-2, Llama and Qwen2 of Hugging Face's transformers against Cairn's.

    python3 torch_transformers.py export DIR    writes DIR/NAME/weights, data and zoo: what to run
    python3 torch_transformers.py check DIR     reads DIR/NAME/back, which Cairn wrote

`check` loads what Cairn saved after having loaded the weights: every name and shape must be the
module's (strict, except for the tied head), and every value the same.
"""

import importlib.util
import pathlib
import sys

# transformers imports torchvision where it finds it, whatever its version
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: (
    None if name.split(".")[0] == "torchvision" else find_spec(name, *rest)
)

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

WORDS, TOKENS = 61, 12
LLAMA = dict(
    vocab_size=WORDS,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    initializer_range=0.2,
)
SIZES = "layers=2,width=32,heads=4,kv_heads=2,ffn=48"


def models():
    """Each with the name that it has in Cairn's zoo."""
    gpt2 = GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_inner=96, initializer_range=0.2
    )
    yield "gpt2", "gpt2:layers=2,width=32,heads=4,ffn=96", GPT2LMHeadModel(gpt2)
    llama = LlamaConfig(**LLAMA, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=False)
    yield "llama", f"llama:llama-2-7b,{SIZES}", LlamaForCausalLM(llama)
    scaling = {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    scaled = LlamaConfig(
        **LLAMA,
        rope_theta=500000.0,
        rope_scaling=scaling,
        max_position_embeddings=131072,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    yield "llama3", f"llama:llama-3.2-1b,{SIZES}", LlamaForCausalLM(scaled)
    qwen = Qwen2Config(**LLAMA, rope_theta=1e6, rms_norm_eps=1e-6, tie_word_embeddings=True)
    yield "qwen", f"llama:qwen2.5-0.5b,{SIZES}", Qwen2ForCausalLM(qwen)


def weights_of(model):
    """As save_pretrained() writes them: tied tensors once, biases random instead of zero."""
    state = model.state_dict()
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight")
    return {name: tensor.contiguous() for name, tensor in state.items()}


def export(folder):
    torch.manual_seed(1)
    for name, zoo, model in models():
        model.eval()
        for parameter in model.parameters():
            if parameter.dim() == 1:
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
        tokens = torch.randint(0, WORDS, (2, TOKENS))
        with torch.no_grad():
            logits = model(tokens).logits
        (folder / name).mkdir()
        (folder / name / "zoo").write_text(zoo)
        save_file(weights_of(model), folder / name / "weights")
        data = {"tokens": tokens.int(), "logits": logits.contiguous()}
        save_file(data, folder / name / "data")


def check(folder):
    for name, _, model in models():
        before, after = load_file(folder / name / "weights"), load_file(folder / name / "back")
        assert before.keys() == after.keys(), sorted(before.keys() ^ after.keys())
        for key, value in before.items():
            assert torch.equal(value, after[key]), key
        missing, unexpected = model.load_state_dict(after, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)


if __name__ == "__main__":
    {"export": export, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
