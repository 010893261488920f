"""By which keys the parties of a study know each other.

There are a small authority, the server's certificate, and a key for each site.

    fedsynth deploy keys DIR --host h      the server's: ca.pem, server.pem and server.key; and
                                           ca.key in DIR-authority, which the server does not need
    fedsynth deploy keys DIR --site north  a site's: node.pub for the others, node, which stays

The authority signs one certificate, that of the server. Sites are known by their public keys, which
stand in the study: nobody signs them, so they are compared, by fingerprint, over the telephone. All
are ECDSA on P-384; the site's are in OpenSSH's form, as Flower wants them. Private keys can be read
by their owner alone, and never leave their machine.
"""

import base64
import hashlib
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsynth_lib.core.contract import BadInput

CA, CA_KEY, CERTIFICATE, SERVER_KEY = "ca.pem", "ca.key", "server.pem", "server.key"
NODE_KEY, NODE_PUBLIC, BUDGET = "node", "node.pub", "budget.toml"
BUDGET_TEXT = """\
# What this site allows, whatever a server asks: only you decide.
population = "{name}"  # whose rows these are; all their releases are in one ledger, in this folder
# The most that all releases about these people may cost together. Without these two settings, it is
# the cost of the runs that you agree to.
# most_epsilon = 1.0
# most_delta = 1e-6
"""
HERE = ("localhost", "127.0.0.1")  # as whom the server's own processes reach it
EARLIER = timedelta(minutes=5)  # clocks differ


def authority_of(folder: Path) -> Path:
    """Where the authority's private key is, apart from the folder from which the server runs."""
    return folder.with_name(f"{folder.name}-authority")


def make_server_keys(folder: Path, hosts: Sequence[str], days: int = 365) -> str:
    """Make an authority, and a certificate for the server's names and addresses.

    Returns the authority's fingerprint. An authority that is there already signs another
    certificate.

    Its private key is in a folder of its own (`authority_of`): who has it can pretend to be the
    server, and a running server does not need it.
    Raises BadInput for what cannot be a host, or a time that is none.
    """
    if not hosts:
        raise BadInput("host: give the names or addresses by which sites reach the server.")
    if not 1 <= days <= 3650:
        raise BadInput(f"days is {days}; give 1 to 3650.")
    names = [_name(host) for host in dict.fromkeys(hosts)]
    begin, signing_key = datetime.now(UTC) - EARLIER, authority_of(folder) / CA_KEY
    if not (folder / CA).exists():
        key = ec.generate_private_key(ec.SECP384R1())
        ca = _certificate("fedsynth study", key, begin, 3650)
        ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        ca = ca.add_extension(_usage(authority=True), critical=True)
        ca = ca.add_extension(_identifier(key), critical=False)
        _write(signing_key, _pem(key), secret=True)
        _write(folder / CA, ca.sign(key, hashes.SHA384()).public_bytes(Encoding.PEM))
    authority = x509.load_pem_x509_certificate((folder / CA).read_bytes())
    if not signing_key.is_file():
        raise BadInput(
            f"{signing_key}: the key of the authority {folder / CA} is not there; bring it back "
            "from where it was moved, or name a new folder for another authority."
        )
    signing = load_pem_private_key(signing_key.read_bytes(), None)
    key = ec.generate_private_key(ec.SECP384R1())
    server = _certificate(hosts[0][:64], key, begin, days, authority.subject)
    server = server.add_extension(x509.SubjectAlternativeName(names), critical=False)
    server = server.add_extension(x509.BasicConstraints(False, None), critical=True)
    server = server.add_extension(_usage(authority=False), critical=True)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    server = server.add_extension(purpose, critical=False)
    server = server.add_extension(_identifier(key), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    server = server.add_extension(issuer, critical=False)
    _write(folder / SERVER_KEY, _pem(key), secret=True)
    signed = server.sign(signing, hashes.SHA384())
    _write(folder / CERTIFICATE, signed.public_bytes(Encoding.PEM))
    return certificate_fingerprint((folder / CA).read_text(encoding="ascii"))


def make_site(folder: Path, name: str) -> str:
    """Make a site's own folder: its key, and a budget to be corrected; what is there is kept.

    Returns the key's fingerprint.
    """
    if not (folder / BUDGET).exists():
        _write(folder / BUDGET, BUDGET_TEXT.format(name=name).encode())
    return make_node_key(folder)


def make_node_key(folder: Path) -> str:
    """Make a site's key; return the fingerprint of its public half. One that is there is kept."""
    if not (folder / NODE_KEY).exists():
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        _write(folder / NODE_KEY, private, secret=True)
        _write(folder / NODE_PUBLIC, public + b"\n")
    return fingerprint((folder / NODE_PUBLIC).read_text(encoding="ascii"))


def public_key(text: str, where: str) -> ec.EllipticCurvePublicKey:
    """Of a line of OpenSSH's; BadInput, saying where, for anything else."""
    try:
        key = load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise BadInput(
            f"{where}: the key is no ECDSA key in OpenSSH's form; give the content of the "
            f"{NODE_PUBLIC} that `fedsynth deploy keys --site` has made."
        )
    return key


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return a site's own key; BadInput where there is none, or others can read it."""
    if not path.is_file():
        raise BadInput(f"{path}: there is no such key; `fedsynth deploy keys --site` makes one.")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise BadInput(f"{path}: others can read this key; chmod 600 {path}.")
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadInput(f"{path}: this is no private ECDSA key in OpenSSH's form.")
    return key


def same_key(private: ec.EllipticCurvePrivateKey, public: str) -> bool:
    """Whether a public key, a line of OpenSSH's, belongs to a private one."""
    theirs = public_key(public, "key").public_numbers()
    return private.public_key().public_numbers() == theirs


def raw(public: str) -> bytes:
    """Return a public key as Flower sends it."""
    return public_key(public, "key").public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(public: str) -> str:
    """Of a public key, as `ssh-keygen -l` shows it."""
    blob = base64.b64decode(public.split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def certificate_fingerprint(pem: str) -> str:
    """Of a certificate, as `openssl x509 -fingerprint -sha256` shows it, in groups of two."""
    try:
        found = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        raise BadInput("ca: this is no certificate in PEM; give the content of ca.pem.") from None
    return found.fingerprint(hashes.SHA256()).hex(":").upper()


def check_validity(certificate: Path) -> None:
    """Check that a certificate is valid now; raise BadInput where it is not."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        raise BadInput(
            f"{certificate}: there is no certificate; `fedsynth deploy keys --host` makes one."
        ) from None
    now, begin, end = datetime.now(UTC), found.not_valid_before_utc, found.not_valid_after_utc
    if not begin <= now <= end:
        raise BadInput(
            f"{certificate}: it is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, "
            f"and the clock here says {now:%Y-%m-%d %H:%M}; set the clock, or make a new one with "
            "`fedsynth deploy keys --host`."
        )


def trusting(ca: str) -> ssl.SSLContext:
    """Return what checks a server's certificate by this authority alone."""
    certificate_fingerprint(ca)  # a text that is no certificate is an error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=ca)
    return context


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    days: int,
    issuer: x509.Name | None = None,
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    """Signs certificates, or speaks TLS."""
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    unused += ("encipher_only", "decipher_only")
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        **dict.fromkeys(unused, False),
    )


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        pass
    if not host or not all(c.isalnum() or c in "-.*" for c in host) or not host.isascii():
        raise BadInput(f"host is {host!r}; give a name or an address, without a port.")
    return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Write a private key that others cannot read, not even while it is written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600 if secret else 0o644), "wb") as file:
            file.write(content)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}); choose another folder."
        ) from error
