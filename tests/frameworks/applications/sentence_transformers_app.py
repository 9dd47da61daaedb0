"""A semantic search that knows nothing of ragtrace, over random word vectors."""

import tokenizers
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

TEXTS = [
    "Employees may take twenty days of leave in a calendar year.",
    "The notice period is three months to the end of a quarter.",
]
QUESTION = "How many days of leave are there?"
words = ["<unk>", *sorted({word for text in (*TEXTS, QUESTION) for word in text.split()})]
vocabulary = {word: number for number, word in enumerate(words)}
tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
encoder = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")
corpus = encoder.encode(TEXTS, convert_to_tensor=True)
hits = util.semantic_search(encoder.encode(QUESTION, convert_to_tensor=True), corpus)[0]
print(len(hits))
