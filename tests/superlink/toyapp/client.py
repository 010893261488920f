"""The ClientApp: a SuperNode's `partition-id` says whose rows it holds."""

from fedsynth_lib.federation import flower
from toyapp.job import encoder, job, parts, table

app = flower.client_app(job, lambda index: encoder.transform(table.frame.iloc[parts[index]]))
