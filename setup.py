"""What setup.cfg cannot say: all packages of the tree, and the folder `sql` as the package `fate_flow_sql`."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["fate_flow", "fate_flow.*"]), "fate_flow_sql"])
