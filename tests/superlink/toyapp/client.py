"""The ClientApp: a SuperNode's `partition-id` says whose rows it holds."""

from fedsynth_lib import flower_app
from toyapp.job import encoder, job, parts, table

app = flower_app.client_app(job, lambda index: encoder.transform(table.frame.iloc[parts[index]]))
