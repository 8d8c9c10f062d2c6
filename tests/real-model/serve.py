"""Serves a GGUF model with llama.cpp's own server on a free port of 127.0.0.1.

Prints the server's address once it answers, and ends when its standard input does.
"""

import os
import sys
import urllib.request

import xllamacpp

# Of each conversation; the model was trained on no more.
CONTEXT = 8192
# Side by side.
CONVERSATIONS = 2

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = CONTEXT * CONVERSATIONS
params.n_parallel = CONVERSATIONS
params.cpuparams.n_threads = os.cpu_count() or 1
# A reply that nobody limits ends all the same.
params.n_predict = 512
params.offline = True
server = xllamacpp.Server(params)

with urllib.request.urlopen(server.listening_address + "/health", timeout=60) as answer:
    if answer.status != 200:
        sys.exit(f"the server is not healthy: {answer.status}")
print(server.listening_address, flush=True)
sys.stdin.read()
# Without waiting for requests that are under way.
os._exit(0)
