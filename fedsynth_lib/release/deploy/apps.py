"""A study as a pair of Flower apps, in a simulation and between the parties of a deployment.

    app = apps.client_app(__file__)    all that the clientapp of a study's folder holds
    app = apps.server_app(__file__)    and its serverapp

A site proves who it is in every answer: it signs the answer, for this run and this message, with
the key that the study has of it. So nobody answers for another site, whatever a SuperLink lets in,
and no `partition-id` is believed; a site whose signature does not hold counts as gone. Before the
first round both sides compare the study and name what differs; nothing about rows has left a site
by then.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsynth_lib.core.accounting import check_budget
from fedsynth_lib.core.contract import BadInput, Charge
from fedsynth_lib.core.ledger import Refused
from fedsynth_lib.federation import flower
from fedsynth_lib.federation.answers import BadAnswer
from fedsynth_lib.release.deploy import keys
from fedsynth_lib.release.deploy.masks import Agreement, ClientMasks, ServerMasks
from fedsynth_lib.release.deploy.place import Place
from fedsynth_lib.release.deploy.study import Study, differences, load_site, read_study

AGREE = "query.agree"
SIGNATURE = "signature"


# --- a site ---------------------------------------------------------------------------------------


class SiteApp(ClientApp):
    """The ClientApp of a site, which signs its every answer.

    find: return the site's place from what the SuperNode, or the simulation, says of itself.
    """

    def __init__(self, find: Callable[[Context], Place]):
        super().__init__()
        self._find = find
        self._apps: dict[tuple[int, bool], tuple[Place, ClientApp]] = {}

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer a message, and sign the answer."""
        return flower.guarded(self._answer, message, context)

    def _answer(self, message: Message, context: Context) -> Message:
        place, app = flower.loaded(lambda: self._app(context))
        context.node_config["partition-id"] = place.index
        reply = app(message, context)
        if place.key is not None:
            text = _signed_text(reply.content, message)
            signature = place.key.sign(text, ec.ECDSA(hashes.SHA384()))
            reply.content[SIGNATURE] = ConfigRecord({"signature": signature})
        return reply

    def _app(self, context: Context) -> tuple[Place, ClientApp]:
        """Return the place and the app of a node, made once for learning and once for evaluating.

        An app encodes the rows and keeps nothing else.
        """
        kind = context.node_id, bool(context.run_config.get("evaluate"))
        if kind not in self._apps:
            place = self._find(context)
            self._apps[kind] = place, app_of(place, evaluate=kind[1])
        return self._apps[kind]


def site_app(place: Place) -> ClientApp:
    """Return the ClientApp of a site that is known, in a process of its own."""
    return SiteApp(lambda context: place)


def app_of(place: Place, *, evaluate: bool = False) -> ClientApp:
    """Return a ClientApp with a site's rounds and its answer on the study."""
    study = place.study
    job = study.evaluation() if evaluate else study.plan.job
    rows = place.rows_set_aside(job) if evaluate else place.rows()
    masks = None if place.key is None else ClientMasks(agreement_of(study, job), place.key)
    app = flower.client_app(job, lambda index: rows, place.ledger, masks)

    @app.query("agree")
    def agree(message: Message, context: Context) -> Message:
        theirs = json.loads(str(message.content["study"]["terms"]))
        found = differences(theirs, study.terms())
        now = job.method.name, int(message.metadata.run_id)
        earlier = [
            sum((name, run) != now for run in place.ledger.runs(name)) if place.ledger else 0
            for name in study.costs
        ]
        about = ConfigRecord({"client": place.index, "differs": found, "earlier": earlier})
        return Message(RecordDict({"about": about}), reply_to=message)

    return app


def agreement_of(study: Study, job: flower.Job) -> Agreement:
    """Return the agreement that the masks of one of the study's jobs rest on."""
    public = [keys.public_key(site.key, f"site {site.name!r}") for site in study.sites]
    return Agreement(
        job,
        public,
        f"{study.digest} {job.method.name}",
        absent=study.absent,
        smallest=study.minimum_group,
    )


def client_app(here: str) -> ClientApp:
    """Return the clientapp of the folder in which `here` is.

    It is for simulations, which have no keys: `fedsynth deploy site` answers with a site's own
    code. The rows of a site are in <its name>.csv in the folder that the run-config `tables` names.
    """
    study = read_study(Path(here).parent)

    def find(context: Context) -> Place:
        index = int(context.node_config["partition-id"])
        if not 0 <= index < len(study.sites):
            raise Refused(f"partition-id is {index}; the study has {len(study.sites)} sites.")
        name, folder = study.sites[index].name, str(context.run_config.get("tables", ""))
        if not folder:
            raise Refused(f"site {name!r}: say where its rows are, with the run-config tables.")
        return Place(study, index, load_site(study, name, Path(folder) / f"{name}.csv"))

    return SiteApp(find)


# --- the server -----------------------------------------------------------------------------------


def server_app(here: str) -> ServerApp:
    """Return the serverapp of the folder in which `here` is.

    run-config `out`: the folder for rows and statement; '' the one where it runs. `evaluate`: a
    file of synthetic rows; the run then evaluates them at the sites. `insecure`: true where sites
    have no keys, as in a simulation.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        carry_out(read_study(Path(here).parent), grid, context)

    return app


def carry_out(study: Study, grid: Grid, context: Context) -> None:
    """Carry out a run at the server: who is there, whether they agree, the rounds, what comes out.

    context: its run-config, as for `server_app`.
    """
    from fedsynth_lib.release.deploy import results

    insecure = bool(context.run_config.get("insecure", False))
    if insecure and study.release:
        raise BadInput(f"{study.name}: a release is not made without keys; leave insecure out.")
    if not insecure and not study.secure:
        raise BadInput(
            f"{study.name}: the study has no keys of its sites; add them, or rehearse with "
            "insecure = true."
        )
    out = Path(str(context.run_config.get("out", "")) or ".")
    rows = str(context.run_config.get("evaluate", ""))
    synthetic = study.synthetic_rows_in(Path(rows)) if rows else None
    job = study.plan.job if synthetic is None else study.evaluation(synthetic)
    outcome = run_job(study, job, grid, context, insecure=insecure)
    if synthetic is None:
        paths = results.write(study, outcome, out)
    else:
        paths = results.write_evaluation(study, job, outcome, out, Path(rows).stem)
    for path in paths:
        say(f"wrote {path}")


def run_job(
    study: Study,
    job: flower.Job,
    grid: Grid,
    context: Context,
    *,
    insecure: bool,
) -> flower.Outcome:
    """Carry out the rounds of one of the study's jobs, once all sites are there and agree."""
    outcome = flower.Outcome(charges=list(study.before))
    rounds = len(job.schedule())

    def prove(client: int, reply: Message) -> None:
        if not insecure:
            check_signature(study, client, reply)

    def after_round(number: int, charges: list[Charge]) -> None:
        check_budget(charges, job.privacy, when=f"by round {number + 1}")
        say(f"round {number + 1} of {rounds} at most is done")

    def before_rounds(nodes: dict[int, int]) -> None:
        outcome.earlier = ask_whether_they_agree(study, grid, nodes, prove)
        say("all sites are there and agree on the study")

    masks = None if insecure else ServerMasks(agreement_of(study, job))
    app = flower.server_app(job, outcome, after_round, masks, study.timeout, prove, before_rounds)
    say(f"waits for {len(study.sites)} sites")
    try:
        app(grid, context)
    except (RuntimeError, BadAnswer) as error:
        raise Refused(named(study, str(error))) from error
    for line in outcome.refused:
        when = f"since round {line['round'] + 1}"
        say(named(study, f"client {line['client']} is gone {when}: {line['why']}"))
    return outcome


def ask_whether_they_agree(
    study: Study, grid: Grid, nodes: dict[int, int], prove: flower.Proof
) -> dict[str, int]:
    """Return how many runs of each of the study's jobs the sites' ledgers have, at most.

    The jobs are known by their methods' names. Raise Refused, naming site and entry, where a
    site has another study.
    """
    terms = ConfigRecord({"terms": json.dumps(study.terms())})
    messages = [
        Message(RecordDict({"study": terms}), message_type=AGREE, dst_node_id=node)
        for node in nodes.values()
    ]
    heard: dict[int, list[str]] = {}
    earlier: list[list[int]] = []
    for reply in grid.send_and_receive(messages, timeout=study.timeout):
        if reply.has_error():
            raise Refused(f"a site cannot say whether it agrees: {reply.error.reason}")
        about = reply.content["about"]
        prove(int(about["client"]), reply)
        heard[int(about["client"])] = [str(each) for each in about["differs"]]
        earlier.append([int(each) for each in about["earlier"]])
    for index, site in enumerate(study.sites):
        if index not in heard:
            raise Refused(f"site {site.name!r} has not said whether it agrees; nothing was asked.")
        if differs := heard[index]:
            more = f", and {len(differs) - 1} more" if len(differs) > 1 else ""
            raise Refused(
                f"site {site.name!r} ('here') has another study: {differs[0]}{more}; nothing was "
                "released."
            )
    return dict(zip(study.costs, map(max, zip(*earlier, strict=True)), strict=True))


def named(study: Study, text: str) -> str:
    """Return a message with the sites' names for the numbers of their clients."""
    names = [site.name for site in study.sites]
    return re.sub(
        r"\bclient (\d+)\b",
        lambda found: f"site {names[int(found[1])]!r}" if int(found[1]) < len(names) else found[0],
        text,
    )


def say(text: str) -> None:
    """Print progress, which a SuperLink hands on as the log of the run."""
    print(f"fedsynth: {text}", flush=True)


# --- signatures -----------------------------------------------------------------------------------


def check_signature(study: Study, client: int, reply: Message) -> None:
    """Raise BadAnswer for a reply that this site has not signed for this run and this message."""
    signed = reply.content.pop(SIGNATURE, None)
    try:
        key = keys.public_key(study.sites[client].key, f"site {client}")
        text = _signed_text(reply.content, reply)
        key.verify(signed["signature"], text, ec.ECDSA(hashes.SHA384()))
    except (InvalidSignature, LookupError, TypeError, ValueError):
        raise BadAnswer(
            "signature",
            f"a node says that it is client {client} and has not signed with the key that the "
            "study has of it",
        ) from None


def _signed_text(content: RecordDict, message: Message) -> bytes:
    """Return a digest of an answer's content, its run, and the message that it answers.

    message: the one that is answered, for the site; the answer itself, for the server, which
    checks.
    """
    about = message.metadata
    answers = about.reply_to_message_id or about.message_id
    digest = hashlib.blake2b(f"{about.run_id} {answers}".encode(), digest_size=32)
    for name in sorted(content):
        record = content[name]
        digest.update(f"|{name}|{type(record).__name__}|".encode())
        if isinstance(record, ArrayRecord):
            for key, array in record.items():
                digest.update(f"|{key}|{array.dtype}|{array.shape}|{len(array.data)}|".encode())
                digest.update(array.data)
        else:
            entries = {key: _listed(value) for key, value in record.items()}
            digest.update(json.dumps(entries, sort_keys=True).encode())
    return digest.digest()


def _listed(value: Any) -> Any:
    """Return a value as JSON has it, alike before and after the wire."""
    if isinstance(value, bytes):
        return value.hex()
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value
