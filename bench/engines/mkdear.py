"""Writes a Llama of which computing a token is dear beside its 1 KB of KV, as it is on a GPU: for what a KV cache saves.

Usage: python mkdear.py OUT_DIR [SEED]      SEED is 0; another one makes a model that answers otherwise

Tokenizer and chat template are those of mkmodel.py. The weights are random and seeded, so every machine gets the same model.
"""
import os
import sys

import torch
from mkmodel import SPECIAL, VOCABULARY, write_tokenizer
from transformers import LlamaConfig, LlamaForCausalLM


def write_model(out, seed):
    # Nearly all of the work is in the MLP, 9 million multiplications a token: the attention that a CPU runs here goes through the whole
    # prompt however much of it is cached, which no GPU's does. In float32, so that a prompt that is computed whole and one of which a part
    # was cached have the same greedy answer: in bfloat16 the last bits depend on how many tokens are computed at once.
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=6144,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        bos_token_id=SPECIAL.index("<s>"),
        eos_token_id=SPECIAL.index("</s>"),
        pad_token_id=SPECIAL.index("<pad>"),
        torch_dtype="float32",
        tie_word_embeddings=False,
    )
    torch.manual_seed(seed)
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(out, safe_serialization=True)


if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    write_tokenizer(folder)
    write_model(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
