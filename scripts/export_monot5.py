"""Turns a MonoT5 checkpoint into the model folder that nuggetd reads: one ONNX graph, its tokenizer, a description.

    scripts/export-monot5 castorini/monot5-base-msmarco-10k models/monot5         32-bit floats
    scripts/export-monot5 castorini/monot5-base-msmarco-10k models/monot5-int8 --int8

(`scripts/export-monot5` runs this script in an environment that it makes; `requirements` stand beside it.) The checkpoint
is a folder in Hugging Face layout or a name on the hub: T5, T5 1.1, mT5 or umT5 with a decoder. What is written:

    model.onnx          input_ids int64 [batch, length], attention_mask int64 [batch, length] -> logits float32 [batch, 2],
                        in the order of --pieces: relevant, not relevant. Weights of more than 2 GB lie in model.onnx.data
    tokenizer.json      the fast tokenizer of the checkpoint, without padding and truncation
    nuggetd-model.json  pieces, template, maximum length, precision, where it comes from, checksums, what was verified

The score of a pair is the log-softmax over the two logits, of the first. Nothing is written before the graph has been
compared with PyTorch, one pair at a time and unpadded, on pairs of many lengths and in batches of several sizes: a
difference above 0.001 in a log-probability (32-bit floats), or a Kendall tau below 0.8 (int8), is a refusal.

THE GRAPH is the encoder, one step of the decoder from its start token, and the two rows of the output layer that belong
to the pieces; a vocabulary of logits is never computed. Three things are rearranged, none of which changes a value
beyond rounding. Self-attention over one position is its value projection. With a single query, cross-attention need
not project all encoder outputs to keys and values: (Wk h)q = h(Wk'q), and likewise for the values, which saves a
seventh of the arithmetic. The position bias is a table over distances, which T5 itself caps, and not a logarithm.
It is traced by PyTorch's dynamo exporter from a module written out here. The legacy tracer fixes the length it saw.

INT8: in the encoder, weights of the linear layers are 8-bit integers with one scale a column, what they are multiplied
with 8-bit integers with one scale a row; the embedding is 8-bit with one scale a row. Sums and the rest are floats. A row
(a token) has a scale of its own, where ONNX Runtime's dynamic quantisation has one for the whole batch: so a score does
not depend on what else is in the batch, and a token with large values costs the others no precision. The decoder, a
small part of the work, stays in floats: it would bring as much noise as the encoder. Whoever runs such a graph on an x86
processor without VNNI must set `session.x64quantprecision` to 1, since there two products are added in 16 bits, which
overflow. With VNNI that setting changes nothing but the speed, by half.

HOW A PAIR BECOMES INPUT IDS (nuggetd does the same). The template is A {query} B {document} C, `Query: {query} Document:
{document} Relevant:`. `ids` is the tokenizer without special tokens, `trim` removes Unicode white space.

    tail = ids of trim(C), and the special tokens that the tokenizer puts at the end (</s>)
    room = maxLength - length of tail
    head = ids of trim_end(A + query + B + document)
    if head is longer than room:
        lead = ids of trim_end(A + query); half = room / 2, rounded down
        if lead is longer than half: head = first half of lead + ids of trim(B + document)
        head = first room of head
    the input is head + tail

So the document's end is cut, never the prompt's; and a query that fills more than half of the room is cut to half of it,
so that something is left of the document. pyterrier_t5 does the same, but for that last rule: there, such a query leaves
nothing. Where nothing is cut, these are also the ids of the whole prompt in one string, as pygaggle has it. Trimming
matters where a document is empty, blank or ends with a blank: sentencepiece drops such a blank by itself, a fast
tokenizer may make a lone piece of it.
"""

import argparse
import hashlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path

FORMAT = 1
TEMPLATE = "Query: {query} Document: {document} Relevant:"
PIECES = ["▁true", "▁false"]  # monoT5; mT5 of unicamp: ▁yes ▁no; Portuguese models: ▁sim ▁não
OLDEST_TORCH = (2, 9)
OLDEST_TRANSFORMERS = (5, 0)
LARGEST_DIFFERENCE = 1e-3
LARGEST_DIFFERENCE_BY_BATCH = {"fp32": 1e-3, "int8": 0.05}
LEAST_TAU = 0.8
EXTERNAL_DATA_FROM = 1_900_000_000  # bytes; a protobuf file ends at 2 GiB
STEPS = 127  # signed 8 bits: weights, and rows with a zero point of 128
POSITIVE_STEPS = 255  # unsigned 8 bits: rows after ReLU


class Refusal(Exception):
    """Something that the user can mend; printed as one line."""


def say(text):
    print(f"export: {text}", file=sys.stderr, flush=True)


# --- what a pair looks like ------------------------------------------------------------------------------------------

WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class Prompt:
    """Makes input ids of pairs, by the rule that stands at the top of this file."""

    def __init__(self, tokenizer, template, max_length):
        """`tokenizer` is a `tokenizers.Tokenizer` without padding and truncation."""
        self.tokenizer = tokenizer
        before, query, rest = template.partition("{query}")
        between, document, after = rest.partition("{document}")
        if not query or not document or "{" in before + between + after or not after.strip(WHITE_SPACE):
            raise Refusal(f"the template must hold {{query}} and then {{document}}, no other brace, and end with more text: {template!r}")
        self.before, self.between = before, between
        self.tail = tokenizer.encode(after.strip(WHITE_SPACE)).ids
        self.room = max_length - len(self.tail)
        if self.room < 2:
            raise Refusal(f"a maximum length of {max_length} leaves no room beside {after.strip()!r}")

    def ids(self, query, document):
        head = self._plain((self.before + query + self.between + document).rstrip(WHITE_SPACE))
        if len(head) > self.room:
            lead = self._plain((self.before + query).rstrip(WHITE_SPACE))
            half = self.room // 2
            if len(lead) > half:
                head = lead[:half] + self._plain((self.between + document).strip(WHITE_SPACE))
            head = head[: self.room]
        return head + self.tail

    def _plain(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids


# --- the checkpoint --------------------------------------------------------------------------------------------------


def check_versions():
    """The packages, or a line that says which is missing or too old."""
    try:
        import onnx
        import onnxruntime
        import onnxscript
        import torch
        import transformers
    except ImportError as error:
        raise Refusal(f"the Python package {error.name} is missing: scripts/export-monot5 brings what is needed") from None
    for package, oldest in ((torch, OLDEST_TORCH), (transformers, OLDEST_TRANSFORMERS)):
        have = tuple(int(part) for part in package.__version__.split("+")[0].split(".")[:2])
        if have < oldest:
            raise Refusal(
                f"{package.__name__} {package.__version__} is too old, {'.'.join(map(str, oldest))} or newer is needed: "
                "scripts/export-monot5 brings it"
            )
    return onnx, onnxruntime, onnxscript


def load(source, tokenizer_source, pieces):
    """The model in 32-bit floats, its fast tokenizer (`tokenizers`), and the ids of the pieces."""
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for place in (source, tokenizer_source):
        if not os.path.isdir(place) and (place.count("/") != 1 or place.startswith((".", "/"))):
            raise Refusal(f"no folder at {place}")
    if os.path.isdir(source) and not os.path.isfile(os.path.join(source, "config.json")):
        raise Refusal(f"no config.json in {source}: not a checkpoint in Hugging Face layout")
    try:
        config = transformers.AutoConfig.from_pretrained(source)
    except Exception as error:
        where = "" if os.path.isdir(source) else f"no folder at {source}, and no such model from the hub: "
        raise Refusal(f"{where}cannot read the configuration of {source}: {first_line(error)}") from None
    if config.model_type not in ("t5", "mt5", "umt5"):
        raise Refusal(
            f"{source} is a model of type {config.model_type}: only t5, mt5 and umt5 are exported here "
            "(cross-encoders: optimum-cli export onnx, whose folders nuggetd reads as they are)"
        )
    # Without these files `transformers` makes up an empty tokenizer and says nothing
    if os.path.isdir(tokenizer_source) and not any(
        os.path.isfile(os.path.join(tokenizer_source, name)) for name in ("tokenizer.json", "spiece.model")
    ):
        raise Refusal(f"no tokenizer.json and no spiece.model in {tokenizer_source}: --tokenizer names another place, such as t5-base")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_source)
        backend = getattr(tokenizer, "backend_tokenizer", None)
    except Exception as error:
        raise Refusal(f"cannot read the tokenizer of {tokenizer_source}: {first_line(error)} (--tokenizer names another)") from None
    if backend is None:
        raise Refusal(f"{tokenizer_source} has no fast tokenizer (tokenizer.json or spiece.model); --tokenizer names another")
    backend = type(backend).from_str(backend.to_str())
    backend.no_padding()
    backend.no_truncation()
    piece_ids = [backend.token_to_id(piece) for piece in pieces]
    for piece, number in zip(pieces, piece_ids):
        if number is None:
            known = [p for p in ("▁true", "▁false", "▁yes", "▁no", "▁sim", "▁não") if backend.token_to_id(p) is not None]
            raise Refusal(
                f"the piece {piece} is not in the vocabulary of {tokenizer_source}"
                + (f", but {' '.join(known)} are" if known else "")
                + ": --pieces names the two that the model answers with, relevant first"
            )
    if piece_ids[0] == piece_ids[1]:
        raise Refusal(f"the two pieces are the same: {pieces[0]}")
    try:
        model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            source, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
    except Exception as error:
        raise Refusal(f"cannot load the weights of {source}: {first_line(error)}") from None
    wrong = sorted(map(str, report["missing_keys"])) + sorted(str(key[0]) for key in report["mismatched_keys"])
    if wrong:
        raise Refusal(f"the weights of {source} do not fit its configuration: {wrong[0]} and {len(wrong) - 1} more are missing or misshapen")
    if backend.get_vocab_size() > config.vocab_size:
        raise Refusal(f"the tokenizer has {backend.get_vocab_size()} pieces, the model only {config.vocab_size} embeddings")
    return model.eval(), backend, piece_ids


def first_line(error):
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


# --- the graph -------------------------------------------------------------------------------------------------------


def fused(model, piece_ids, int8):
    """The module that is exported: encoder, one step of the decoder, the logits of the two pieces."""
    import torch
    from torch import nn
    from torch.nn import functional

    operator = torch.onnx.ops.symbolic

    class Linear(nn.Module):
        """y = x W, from an `nn.Linear` without bias."""

        def __init__(self, layer):
            super().__init__()
            self.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)

        def forward(self, x):
            return functional.linear(x, self.weight)

    class Int8Linear(nn.Module):
        """y = x W with integers: `x` comes as (integers, scale of each row, zero point), as `rows` makes it."""

        def __init__(self, layer):
            super().__init__()
            weight = layer.weight.detach().T
            scale = weight.abs().amax(0).clamp(min=1e-30) / STEPS
            self.register_buffer("weight", (weight / scale).round().to(torch.int8).contiguous())
            self.register_buffer("scale", scale)
            self.register_buffer("one", torch.tensor(1.0))

        def forward(self, x):
            integers, row_scale, zero = x
            shape = (*integers.shape[:-1], self.weight.shape[1])
            product = operator(
                "com.microsoft::MatMulIntegerToFloat",
                (integers, self.weight, self.one, self.scale, zero),
                dtype=torch.float32, shape=shape, version=1,
            )
            return product * row_scale

    class Rows(nn.Module):
        """What an `Int8Linear` takes: integers with one scale a row."""

        def __init__(self, positive=False):
            super().__init__()
            self.positive = positive
            self.steps = POSITIVE_STEPS if positive else STEPS
            self.register_buffer("zero", torch.tensor(0 if positive else 128, dtype=torch.uint8))
            self.register_buffer("one", torch.tensor(1.0))

        def forward(self, x):
            largest = (x if self.positive else x.abs()).amax(-1, keepdim=True).clamp(min=1e-30)
            integers = operator(
                "QuantizeLinear", (x * (self.steps / largest), self.one, self.zero), dtype=torch.uint8, shape=x.shape
            )
            return integers, largest * (1 / self.steps), self.zero

    class Floats(nn.Module):
        """What a `Linear` takes: the floats themselves."""

        def __init__(self, positive=False):
            super().__init__()

        def forward(self, x):
            return x

    class Norm(nn.Module):
        """Scales by the root of the mean square; written so that ONNX Runtime knows it again."""

        def __init__(self, layer):
            super().__init__()
            self.weight = nn.Parameter(layer.weight.detach(), requires_grad=False)
            self.epsilon = layer.variance_epsilon

        def forward(self, x):
            return self.weight * (x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))

    class FeedForward(nn.Module):
        def __init__(self, layer, linear=Linear, rows=Floats):
            super().__init__()
            inner = layer.DenseReluDense
            self.norm, self.act, self.gated = Norm(layer.layer_norm), inner.act, hasattr(inner, "wi_0")
            self.first = nn.ModuleList(map(linear, (inner.wi_0, inner.wi_1) if self.gated else (inner.wi,)))
            self.rows = rows()
            self.inner_rows = rows(positive=isinstance(inner.act, nn.ReLU) and not self.gated)
            self.last = linear(inner.wo)

        def forward(self, x):
            rows = self.rows(self.norm(x))
            inner = self.act(self.first[0](rows))
            if self.gated:
                inner = inner * self.first[1](rows)
            return x + self.last(self.inner_rows(inner))

    class EncoderLayer(nn.Module):
        def __init__(self, block):
            super().__init__()
            linear, rows = (Int8Linear, Rows) if int8 else (Linear, Floats)
            attention = block.layer[0].SelfAttention
            self.heads, self.width = attention.n_heads, attention.key_value_proj_dim
            self.norm, self.rows, self.output_rows = Norm(block.layer[0].layer_norm), rows(), rows()
            self.query, self.key, self.value, self.output = map(
                linear, (attention.q, attention.k, attention.v, attention.o)
            )
            self.feed_forward = FeedForward(block.layer[-1], linear, rows)

        def forward(self, x, bias):
            batch, length, _ = x.shape
            shape = (batch, length, self.heads, self.width)
            rows = self.rows(self.norm(x))
            query = self.query(rows).view(shape).transpose(1, 2)
            key = self.key(rows).view(shape).permute(0, 2, 3, 1)
            value = self.value(rows).view(shape).transpose(1, 2)
            mixed = torch.softmax(query @ key + bias, -1) @ value
            x = x + self.output(self.output_rows(mixed.transpose(1, 2).reshape(batch, length, -1)))
            return self.feed_forward(x)

    class DecoderLayer(nn.Module):
        def __init__(self, block):
            super().__init__()
            own, cross = block.layer[0].SelfAttention, block.layer[1].EncDecAttention
            self.heads, self.width = cross.n_heads, cross.key_value_proj_dim
            self.norm, self.cross_norm = Norm(block.layer[0].layer_norm), Norm(block.layer[1].layer_norm)
            self.value, self.output, self.cross_query, self.cross_output = map(Linear, (own.v, own.o, cross.q, cross.o))
            by_head = (self.heads, self.width, -1)
            self.cross_key = nn.Parameter(cross.k.weight.detach().view(by_head).contiguous(), requires_grad=False)
            self.cross_value = nn.Parameter(
                cross.v.weight.detach().view(by_head).transpose(1, 2).contiguous(), requires_grad=False
            )
            self.feed_forward = FeedForward(block.layer[-1])

        def forward(self, x, encoded, mask):
            batch = x.shape[0]
            x = x + self.output(self.value(self.norm(x)))
            query = self.cross_query(self.cross_norm(x)).view(batch, self.heads, self.width)
            query = (query.transpose(0, 1) @ self.cross_key).transpose(0, 1)  # [batch, head, model]
            mixed = torch.softmax(query @ encoded.transpose(1, 2) + mask, -1) @ encoded
            mixed = (mixed.transpose(0, 1) @ self.cross_value).transpose(0, 1).reshape(batch, -1)
            x = x + self.cross_output(mixed)
            return self.feed_forward(x)

    class PositionBias(nn.Module):
        """Bias of each head by distance; T5 has one value for all distances from `relative_attention_max_distance`."""

        def __init__(self, attention):
            super().__init__()
            self.most = attention.relative_attention_max_distance
            with torch.no_grad():
                bias = attention.compute_bias(self.most + 1, self.most + 1)[0]
            self.register_buffer("by_distance", torch.cat([bias[:, -1, :-1], bias[:, 0, :]], 1).T.contiguous())

        def forward(self, length):
            place = torch.arange(length)
            distance = (place[None, :] - place[:, None]).clamp(-self.most, self.most) + self.most
            return functional.embedding(distance, self.by_distance).permute(2, 0, 1)[None]

    class Embedding(nn.Module):
        def __init__(self, layer):
            super().__init__()
            weight = layer.weight.detach()
            if int8:
                scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-30) / STEPS
                self.register_buffer("weight", (weight / scale).round().to(torch.int8))
                self.register_buffer("scale", scale)
            else:
                self.weight = nn.Parameter(weight, requires_grad=False)

        def forward(self, ids):
            rows = functional.embedding(ids, self.weight)
            return rows.to(torch.float32) * functional.embedding(ids, self.scale) if int8 else rows

    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            encoder, decoder = model.encoder, model.decoder
            config = model.config
            self.embedding = Embedding(encoder.embed_tokens)
            self.encoder = nn.ModuleList(map(EncoderLayer, encoder.block))
            own = [block.layer[0].SelfAttention for block in encoder.block]
            # T5 and mT5 have one bias, in the first layer, umT5 one in each
            self.biases = nn.ModuleList(PositionBias(a) for a in own if a.has_relative_attention_bias)
            self.encoder_norm, self.decoder_norm = Norm(encoder.final_layer_norm), Norm(decoder.final_layer_norm)
            start = decoder.embed_tokens.weight[config.decoder_start_token_id].detach()
            self.start = nn.Parameter(start[None].clone(), requires_grad=False)
            self.decoder = nn.ModuleList(map(DecoderLayer, decoder.block))
            pieces = model.lm_head.weight[piece_ids].detach()
            scaled = getattr(config, "scale_decoder_outputs", False)
            self.pieces = nn.Parameter(pieces * (config.d_model**-0.5 if scaled else 1.0), requires_grad=False)

        def forward(self, input_ids, attention_mask):
            batch, length = input_ids.shape
            mask = (1.0 - attention_mask.to(torch.float32))[:, None, :] * torch.finfo(torch.float32).min
            biases = [bias(length) + mask[:, None] for bias in self.biases]
            x = self.embedding(input_ids)
            for number, layer in enumerate(self.encoder):
                x = layer(x, biases[min(number, len(biases) - 1)])
            encoded = self.encoder_norm(x)
            y = self.start.expand(batch, -1)
            for layer in self.decoder:
                y = layer(y, encoded, mask)
            return functional.linear(self.decoder_norm(y), self.pieces)

    return Fused().eval()


def write_graph(module, path, opset, external_data):
    """Traces the module and writes it, without the names of source files that the exporter notes on every node."""
    import torch

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    ids = torch.randint(3, 100, (3, 7), generator=torch.Generator().manual_seed(1))
    shapes = {0: batch, 1: length}
    with torch.no_grad():
        program = torch.onnx.export(
            module, (ids, torch.ones_like(ids)), dynamo=True, opset_version=opset, verbose=False,
            input_names=["input_ids", "attention_mask"], output_names=["logits"],
            dynamic_shapes={"input_ids": shapes, "attention_mask": shapes},
        )
    graph = program.model.graph
    for noted in [program.model, graph, *graph.all_nodes(), *graph.inputs, *graph.outputs, *graph.initializers.values()]:
        noted.metadata_props.clear()
        noted.doc_string = None
    for node in graph.all_nodes():
        for output in node.outputs:
            output.metadata_props.clear()
    size = sum(tensor.nelement() * tensor.element_size() for tensor in module.state_dict().values())
    program.save(str(path), external_data=external_data or size > EXTERNAL_DATA_FROM)


# --- the proof -------------------------------------------------------------------------------------------------------

QUERIES = [
    "Have roads been closed?",
    "How many people are missing after the landslide",
    "which shelters take animals",
    "Where is drinking water handed out?",
    "",
    "Quali strade sono chiuse?",
    "Hat die Feuerwehr weitere Kräfte angefordert",
    "What damage did the second tremor do to the hospital, the water tower and the two bridges over the river?",
]
DOCUMENTS = [
    "",
    " \t ",
    "Fire.",
    "Route 12 is closed between the mill and the old bridge; use the valley road instead.",
    "Two people are still missing, the sheriff said at noon. Rescue teams search the east slope with dogs.",
    "Pray for everyone in Harlow County tonight 🙏🙏🙏",
    "🔥🔥🔥🚒",
    "The red cross shelter at the high school gym takes cats and dogs, bring a leash and food for three days #HarlowFire",
    "Il ponte sul fiume è chiuso al traffico, i vigili del fuoco evacuano la zona industriale.",
    "أغلقت الشرطة الطريق السريع بسبب السيول",
    "הכביש נסגר בגלל שיטפון ליד הגשר הישן",
    "消防隊は午後三時に橋を封鎖した。",
    "RT @harlow_alerts: evacuation order for zone 4 (1,250 homes). Leave now!!! http://example.org/a?b=c&d=%20e",
    "no news from my brother in Tarn since 6:45 this morning, phone is dead, anyone near the quarry please check",
    "Power is out for 13 400 customers. Crews wait for the wind to drop below 60 km/h before they go up the poles.",
    "lol my cat slept through the quake",
    "Water tanks stand at the town hall, at St. Mary's and behind the fire station; bring your own cans.",
    "</s> <pad> Relevant: true",
    "The council's third report on the flood lists 31 damaged houses, four of them beyond repair, and thanks the volunteers "
    "who filled nine thousand sandbags in two nights. The sewage plant runs again since Tuesday, the water must be boiled "
    "until the laboratory says otherwise, and school begins on Thursday for all but the fifth grade.",
]
BATCHES = (1, 2, 7, 32)


def pairs_to_verify(prompt, max_length):
    """Inputs of every length from the shortest to the longest, as ids; the texts were written for this purpose."""
    inputs = []
    for number, document in enumerate(DOCUMENTS):
        for step in (0, 3, 5):
            inputs.append(prompt.ids(QUERIES[(number + step) % len(QUERIES)], document))
    long = " ".join(DOCUMENTS[3:] * 8)
    words = long.split()
    for share in (0.07, 0.12, 0.2, 0.35, 0.6, 1.0):
        inputs.append(prompt.ids(QUERIES[1], " ".join(words[: int(share * min(len(words), max_length))])))
    inputs.append(prompt.ids(QUERIES[3], long * 4))
    inputs.append(prompt.ids(long, DOCUMENTS[4]))
    # Lengths below those of any prompt
    inputs.extend(inputs[9][:length] for length in (1, 2, 3, 5, 8))
    return inputs


def log_probabilities(logits):
    import numpy

    logits = logits.astype(numpy.float64)
    return logits - numpy.logaddexp(logits[:, :1], logits[:, 1:])


def expected(model, piece_ids, inputs):
    """What PyTorch says, one input at a time and unpadded: log-probabilities [pair, 2]."""
    import numpy
    import torch

    start = torch.tensor([[model.config.decoder_start_token_id]])
    rows = []
    with torch.inference_mode():
        for ids in inputs:
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=start).logits
            rows.append(logits[0, 0, piece_ids].numpy())
    return log_probabilities(numpy.stack(rows))


def computed(path, inputs, size, pad):
    """What the graph says in batches of `size`, in the order given, padded on the right."""
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rows = []
    for start in range(0, len(inputs), size):
        batch = inputs[start : start + size]
        length = max(map(len, batch))
        ids = numpy.array([ids + [pad] * (length - len(ids)) for ids in batch], numpy.int64)
        mask = numpy.array([[1] * len(ids) + [0] * (length - len(ids)) for ids in batch], numpy.int64)
        (logits,) = session.run(["logits"], {"input_ids": ids, "attention_mask": mask})
        rows.append(logits)
    return log_probabilities(numpy.concatenate(rows))


def kendall_tau(first, second):
    """Tau-b: how far two lists of scores order the same; 1 = alike."""
    import numpy

    upper = numpy.triu_indices(len(first), 1)
    a = numpy.sign(numpy.subtract.outer(first, first))[upper]
    b = numpy.sign(numpy.subtract.outer(second, second))[upper]
    return float((a * b).sum() / max(numpy.sqrt((a != 0).sum() * (b != 0).sum()), 1))


def verify(model, piece_ids, prompt, max_length, path, int8):
    """Compares the graph with PyTorch; a Refusal where they differ too much, else what was measured."""
    import numpy

    pad = model.config.pad_token_id or 0
    inputs = pairs_to_verify(prompt, max_length)
    say(f"comparing {len(inputs)} pairs of {min(map(len, inputs))} to {max(map(len, inputs))} tokens with PyTorch")
    reference = expected(model, piece_ids, inputs)
    if not numpy.isfinite(reference).all():
        raise Refusal("the checkpoint itself gives scores that are not numbers")
    results = [computed(path, inputs, size, pad) for size in BATCHES]
    if not all(numpy.isfinite(result).all() for result in results):
        raise Refusal("the exported graph gives scores that are not numbers")
    difference = float(max(numpy.abs(result - reference).max() for result in results))
    by_batch = float(max(numpy.abs(result - results[0]).max() for result in results))
    tau = min(kendall_tau(result[:, 0], reference[:, 0]) for result in results)
    say(
        f"largest difference {difference:.2g}, between batches {by_batch:.2g}; Kendall tau {tau:.4f} "
        f"(batches of {', '.join(map(str, BATCHES))})"
    )
    if by_batch > LARGEST_DIFFERENCE_BY_BATCH["int8" if int8 else "fp32"]:
        raise Refusal(f"scores depend on the batch, by {by_batch:.2g}: nothing written")
    if not int8 and difference > LARGEST_DIFFERENCE:
        raise Refusal(f"the graph differs from PyTorch by {difference:.2g}, more than {LARGEST_DIFFERENCE}: nothing written")
    if int8 and tau < LEAST_TAU:
        raise Refusal(f"in int8 the order of the pairs is lost, Kendall tau {tau:.2f} is below {LEAST_TAU}: nothing written")
    return {"pairs": len(inputs), "maxDifference": float(f"{difference:.3g}"), "kendallTau": round(tau, 4)}


def compare_with_sentencepiece(source, prompt):
    """Says whether the fast tokenizer cuts texts as the checkpoint's own sentencepiece model does, where there is one."""
    path = os.path.join(source, "spiece.model")
    if not os.path.isfile(path):
        return
    try:
        import sentencepiece
    except ImportError:
        return
    pieces = sentencepiece.SentencePieceProcessor(model_file=path)
    texts = [text for text in QUERIES + DOCUMENTS if "<" not in text]
    differ = [text for text in texts if pieces.encode(text) != prompt.tokenizer.encode(text, add_special_tokens=False).ids]
    say(f"tokenizer: {len(texts) - len(differ)} of {len(texts)} texts as spiece.model has them")
    if len(differ) > len(texts) // 4:
        raise Refusal(f"the fast tokenizer of {source} does not agree with its spiece.model, for instance on {differ[-1]!r}")


# --- the folder ------------------------------------------------------------------------------------------------------


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def export(arguments):
    target = Path(arguments.target)
    if target.exists() and not target.is_dir():
        raise Refusal(f"{target} is a file")
    if target.is_dir() and any(target.iterdir()):
        if not (target / "nuggetd-model.json").is_file():
            raise Refusal(f"{target} is not empty, and holds no export that --force could replace: name another folder")
        if not arguments.force:
            raise Refusal(f"{target} holds an export: --force replaces it")
    source = Path(arguments.source).resolve()
    if source.exists() and (target.resolve() == source or target.resolve() in source.parents):
        raise Refusal(f"{target} holds the checkpoint itself: name another folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"the folder {target.parent} cannot be made: {error.strerror}") from None
    check_versions()
    quiet()
    say(f"loading {arguments.source}")
    tokenizer_source = arguments.tokenizer or arguments.source
    model, tokenizer, piece_ids = load(arguments.source, tokenizer_source, arguments.pieces)
    prompt = Prompt(tokenizer, arguments.template, arguments.max_length)
    compare_with_sentencepiece(tokenizer_source, prompt)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        temporary.chmod(0o755)
        say(f"exporting {model.config.model_type}, {'int8' if arguments.int8 else 'fp32'}")
        write_graph(
            fused(model, piece_ids, arguments.int8), temporary / "model.onnx", arguments.opset, arguments.external_data
        )
        verified = verify(model, piece_ids, prompt, arguments.max_length, temporary / "model.onnx", arguments.int8)
        tokenizer.save(str(temporary / "tokenizer.json"), pretty=False)
        folder = os.path.isdir(arguments.source)
        files = sorted(path.name for path in temporary.iterdir())
        description = {
            "format": FORMAT,
            "kind": "monot5",
            "layout": "fused",
            "model": "model.onnx",
            "pieces": arguments.pieces,
            "template": arguments.template,
            "maxLength": arguments.max_length,
            "precision": "int8" if arguments.int8 else "fp32",
            "source": Path(arguments.source).resolve().name if folder else arguments.source,
            "sha256": {name: sha256(temporary / name) for name in files},
            "verified": verified,
        }
        with open(temporary / "nuggetd-model.json", "w", encoding="utf-8") as file:
            json.dump(description, file, ensure_ascii=False, indent=2)
            file.write("\n")
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
            target.rename(old / target.name)
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    size = sum(path.stat().st_size for path in target.iterdir())
    say(f"wrote {target}, {size / 1e6:.1f} MB")


def quiet():
    """The exporter and its parts have much to say that no user can act on."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="export-monot5", description="Turns a MonoT5 checkpoint into the model folder that nuggetd reads."
    )
    parser.add_argument("source", metavar="FROM", help="a folder in Hugging Face layout, or a name on the hub")
    parser.add_argument("target", metavar="TO", help="the folder to write")
    parser.add_argument("--int8", action="store_true", help="8-bit integers in the encoder: faster on CPUs, less precise")
    parser.add_argument("--pieces", nargs=2, default=PIECES, metavar=("RELEVANT", "NOT"), help="default: ▁true ▁false")
    parser.add_argument("--template", default=TEMPLATE, help=f"default: {TEMPLATE!r}")
    parser.add_argument("--max-length", type=int, default=512, metavar="N", help="tokens of an input; default: 512")
    parser.add_argument("--tokenizer", metavar="FROM", help="another folder or name, where the checkpoint has no tokenizer")
    parser.add_argument("--opset", type=int, default=18, help="ONNX operator set, 18 or newer; default: 18")
    parser.add_argument("--external-data", action="store_true", help="weights in a file of their own, as above 2 GB")
    parser.add_argument("--force", action="store_true", help="replace TO where it is not empty")
    parsed = parser.parse_args(arguments)
    if parsed.opset < 18:
        parser.error("--opset must be 18 or more")
    if parsed.max_length < 16:
        parser.error("--max-length must be 16 or more")
    return parsed


def main():
    # An export that is ended removes what it had begun, as a refused one does
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        export(parse(sys.argv[1:]))
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
