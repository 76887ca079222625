"""A native broker that requires TLS, passwords and permissions; keytool makes its certificate."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Literal

from calmstream.broker.security import Secret, SecurityConfig
from tests.brokers.jars import Unavailable
from tests.brokers.native import PATIENT, NativeKafka
from tests.support.runs import ran

Mechanism = Literal["PLAIN", "SCRAM-SHA-512"]
MECHANISM: Mechanism = "SCRAM-SHA-512"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LISTENER = "listener.name.sasl_ssl"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredKafka:
    """SASL over TLS, PLAIN and SCRAM, StandardAuthorizer; ``admin`` may do everything."""

    def __init__(self, directory: Path, users: list[str]) -> None:
        self.directory = directory
        self.passwords = {user: secrets.token_hex(12) for user in ["admin", *users]}
        self.cafile = directory / "ca.pem"
        store, secret = self._certificate()
        logins = " ".join(f'user_{u}="{p}"' for u, p in self.passwords.items())
        admin = f'username="admin" password="{self.passwords["admin"]}"'
        self.kafka = NativeKafka(
            directory / "broker",
            properties={
                **PATIENT,
                "listeners": "SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": "SASL_SSL://127.0.0.1:{port}",
                "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "SASL_SSL",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
                f"{_LISTENER}.plain.sasl.jaas.config": f"{_PLAIN} required {admin} {logins};",
                f"{_LISTENER}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
                "ssl.keystore.location": str(store),
                "ssl.keystore.password": secret,
                "ssl.keystore.type": "PKCS12",
                "ssl.truststore.location": str(self.cafile),
                "ssl.truststore.type": "PEM",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin;User:ANONYMOUS",
                "allow.everyone.if.no.acl.found": "false",
            },
        )

    def security(
        self, user: str, password: str | None = None, mechanism: Mechanism = "PLAIN"
    ) -> SecurityConfig:
        return SecurityConfig(
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_username=user,
            sasl_password=Secret(self.passwords[user] if password is None else password),
            ssl_cafile=self.cafile,
        )

    def settings(self, user: str) -> dict[str, str]:
        """Return them as environment variables of a command; the password is in a file."""
        path = self.directory / f"{user}.password"
        path.write_text(self.passwords[user])
        return {
            "CALMSTREAM_SECURITY_PROTOCOL": "SASL_SSL",
            "CALMSTREAM_SASL_MECHANISM": "PLAIN",
            "CALMSTREAM_SASL_USERNAME": user,
            "CALMSTREAM_SASL_PASSWORD_FILE": str(path),
            "CALMSTREAM_SSL_CAFILE": str(self.cafile),
        }

    def add_scram(self, user: str, password: str) -> None:
        from kafka import KafkaAdminClient
        from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

        settings = self.security("admin").client_settings()
        admin = KafkaAdminClient(bootstrap_servers=self.kafka.bootstrap, **settings)
        wanted = UserScramCredentialUpsertion(
            user, ScramMechanism.SCRAM_SHA_512, password, iterations=4096
        )
        admin.alter_user_scram_credentials([wanted])
        admin.close()

    def renew_certificate(self) -> None:
        """Make another key and certificate; the broker uses them from its next start on."""
        store, secret = self._certificate()
        self.kafka.set_properties(
            {"ssl.keystore.location": str(store), "ssl.keystore.password": secret}
        )

    def _certificate(self) -> tuple[Path, str]:
        keytool = shutil.which("keytool")
        if keytool is None:
            raise Unavailable("there is no keytool")
        secret = secrets.token_hex(12)
        store = self.directory / f"server-{secret[:4]}.p12"
        common = ["-alias", "broker", "-keystore", store, "-storepass", secret]
        kind = ["-keyalg", "EC", "-groupname", "secp256r1", "-storetype", "PKCS12"]
        name = ["-dname", "CN=localhost", "-ext", "SAN=IP:127.0.0.1,DNS:localhost"]
        self._run([keytool, "-genkeypair", "-validity", "2", *kind, *name, *common])
        self._run([keytool, "-exportcert", "-rfc", "-file", self.cafile, *common])
        return store, secret

    def _run(self, words: list[object]) -> None:
        done = ran(*words, code=None)
        if done.returncode:
            raise Unavailable(f"keytool failed: {done.stdout}{done.stderr}")
