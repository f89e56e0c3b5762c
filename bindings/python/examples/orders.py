# %% [markdown]
# # How long do orders take?
#
# Each `# %%` is a cell: editors and Jupytext open this file as a notebook.
# Run as a program, it writes the plot to a file: `python orders.py orders.png`.
# It needs Linux, since it records a program: itself.

# %%
import pathlib
import random
import sys
import tempfile
import threading
import time

import matplotlib.pyplot as plt

import openetw

output = sys.argv[1] if len(sys.argv) == 2 else "orders.png"
file = pathlib.Path(tempfile.mkdtemp()) / "shop.etl"

# %% [markdown]
# The program has a provider, and writes an event for each order.
# While no session has enabled the provider, `write` does next to nothing.

# %%
shop = openetw.Provider("Example.Shop")


def work(worker: str, pace: float) -> None:
    chance = random.Random(worker)
    for number in range(150):
        start = time.perf_counter()
        time.sleep(chance.expovariate(1 / pace))
        millis = (time.perf_counter() - start) * 1000
        shop.write("OrderPlaced", level=4, worker=worker, number=number, millis=millis, items=["tea", "cup"])


# %% [markdown]
# A session records the events in a file.

# %%
with openetw.Session("Orders", providers=["Example.Shop"], file=file) as session:
    workers = [threading.Thread(target=work, args=name) for name in (("Ada", 0.002), ("Bob", 0.004))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
shop.close()
print(session.stop())

# %% [markdown]
# The file in a loop, with a filter that is evaluated where the trace is read:

# %%
trace = openetw.open(file)
for event in trace.where("millis > 5").limit(3):
    print(event.time, event.name, event["worker"], event["millis"])

# %% [markdown]
# And as columns, without copies. `kinds` has the names that `to_pandas` takes.

# %%
print(trace.kinds())
orders = trace.to_pandas("Example.Shop/OrderPlaced")
print(orders.groupby("worker")["millis"].describe())

# %%
figure, (over_time, spread) = plt.subplots(1, 2, figsize=(9, 3.5))
for worker, rows in orders.groupby("worker"):
    over_time.plot((rows["time"] - orders["time"].min()).dt.total_seconds(), rows["millis"], ".", label=worker)
    spread.hist(rows["millis"], bins=30, alpha=0.6, label=worker)
over_time.set(xlabel="seconds", ylabel="milliseconds", title="Each order")
spread.set(xlabel="milliseconds", ylabel="orders", title="How long orders take")
spread.legend()
plt.tight_layout()
plt.savefig(output)
