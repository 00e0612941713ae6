"""Gives the weights of a model to a running engine by tensors, as a trainer does.

Usage: python tensors.py ENGINE_URL MODEL_DIR
"""
import base64
import json
import pickle
import sys
import urllib.request

from safetensors.torch import load_file


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        told = json.load(answer)
    if not told.get("success"):
        sys.exit(f"{url}: {told}")


if __name__ == "__main__":
    engine, folder = sys.argv[1:]
    tensors = base64.b64encode(pickle.dumps(list(load_file(f"{folder}/model.safetensors").items()))).decode()
    post(f"{engine}/begin_weight_update", {})
    post(f"{engine}/update_weights_from_tensor", {"serialized_named_tensors": [tensors], "flush_cache": True})
    post(f"{engine}/end_weight_update", {})
