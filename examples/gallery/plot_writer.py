"""
A GRU that writes
=================

The network of ``examples/char_gru.py`` learns to write from Python's help texts, here for 60 steps instead of a minute.
"""

# %%
import char_gru
import matplotlib.pyplot as plt
import paddle

paddle.disable_static()
text, alphabet = char_gru.load_text(60_000)
model, losses = char_gru.train(text, alphabet, 60)

# %%
plt.plot(losses)
plt.xlabel("step")
plt.ylabel("loss of the next character")

# %%
# After so few steps it has learnt which letters occur, and little more.
print(char_gru.write(model, alphabet, "The ", 120))
