"""
Learning-rate schedules
=======================

The schedulers of ``paddle.optimizer.lr`` over 60 steps.
"""

# %%
# A scheduler's value is called; ``step`` goes on.
import matplotlib.pyplot as plt
import paddle

paddle.disable_static()
lr = paddle.optimizer.lr
schedules = {
    "NoamDecay": lr.NoamDecay(d_model=64, warmup_steps=15),
    "PiecewiseDecay": lr.PiecewiseDecay([20, 40], [0.03, 0.015, 0.005]),
    "ExponentialDecay": lr.ExponentialDecay(0.03, 0.95),
    "PolynomialDecay": lr.PolynomialDecay(0.03, decay_steps=60),
    "CosineAnnealingDecay": lr.CosineAnnealingDecay(0.03, T_max=30),
    "LinearWarmup": lr.LinearWarmup(lr.StepDecay(0.03, step_size=15), warmup_steps=10, start_lr=0, end_lr=0.03),
}


def values(schedule):
    found = []
    for _ in range(60):
        found.append(schedule())
        schedule.step()
    return found


# %%
# One picture each.
figure, axes = plt.subplots(2, 3, figsize=(9, 4.5), sharex=True, sharey=True)
for axis, (name, schedule) in zip(axes.flat, schedules.items(), strict=True):
    axis.plot(values(schedule))
    axis.set_title(name, fontsize=10)
figure.tight_layout()
