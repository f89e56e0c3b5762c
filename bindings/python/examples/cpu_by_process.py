# %% [markdown]
# # What a machine did
#
# Each `# %%` is a cell: editors and Jupytext open this file as a notebook.
# Run as a program, it writes the plot to a file: `python cpu_by_process.py trace.etl plot.png`.
# The trace needs the sampled profile: of Windows (`wpr -start CPU`), or `etw record -k PROC_THREAD+LOADER+PROFILE`.

# %%
import sys

import matplotlib.pyplot as plt

import openetw

path, output = sys.argv[1:3]
trace = openetw.open(path)
print(f"{trace.start:%Y-%m-%d %H:%M:%S} to {trace.end:%H:%M:%S}")

# %% [markdown]
# Which events are there? `kinds` counts them; the names are those that `table` takes.

# %%
kinds = sorted(trace.kinds().items(), key=lambda item: -item[1])
for name, count in kinds[:5]:
    print(f"{count:8} {name}")

# %% [markdown]
# CPU time by process: a pivot over the samples, computed before anything reaches Python.

# %%
busiest = trace.pivot("cpu_sampled", ["process"], ["sum(weight)"], top=5).to_pandas()
print(busiest)

# %% [markdown]
# The same over time, from the rows themselves.

# %%
samples = trace.to_pandas("cpu_sampled", ["time", "process", "weight"])
samples["second"] = (samples["time"] - samples["time"].min()).dt.floor("100ms").dt.total_seconds()
samples["seconds of CPU"] = samples["weight"].dt.total_seconds() / 0.1
over_time = samples[samples["process"].isin(busiest["process"])].pivot_table(
    index="second", columns="process", values="seconds of CPU", aggfunc="sum", observed=True
)

# %%
axes = over_time.fillna(0).plot.area(figsize=(9, 4), linewidth=0)
axes.set(xlabel="seconds", ylabel="busy processors", title="CPU by process")
axes.legend(title=None, fontsize="small")
plt.tight_layout()
plt.savefig(output)
