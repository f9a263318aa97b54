"""Word lists of the generators, written for this project: things, roles, places and filler, in plain English.

Data only. A word's side (training or evaluation) is decided by its spelling, see :mod:`engine.demo.train.tokens`.
"""

from __future__ import annotations


def _split(text: str) -> list[str]:
    return text.split()


QUALITIES = _split("""
    north south east west upper lower inner outer old new main small large red green blue white black yellow grey spare
    second third first last public private summer winter morning evening night central coastal royal municipal mobile
    digital annual monthly weekly daily special standard safe cold warm dry wet short front back left right guest staff
    emergency backup
""")

THINGS = _split("""
    gate harbour dock pier crane warehouse ferry lighthouse station office archive library museum theatre school hospital
    clinic market bakery garden park bridge tunnel tower hall kitchen cellar workshop garage stable barn mill factory plant
    laboratory server printer scanner camera radio pump valve engine turbine boiler tank pipe cable sensor meter panel
    switch door window locker safe cabinet shelf drawer box crate parcel container truck van tram bus train boat ship yacht
    buoy anchor rope sail chapel church square street road trail path field forest lake river island beach cliff quarry mine
    depot terminal platform gym pool court stadium arena studio gallery shop store counter desk room suite wing floor
    basement roof yard fence well
""")

ROLES = _split("""
    master keeper director manager captain pilot mayor chair treasurer secretary editor curator librarian teacher head
    doctor nurse engineer technician inspector guard warden ranger gardener cook baker clerk agent broker owner tenant
    architect builder surveyor conductor driver dispatcher operator coach referee president deputy assistant advisor auditor
    planner
""")

PLACES = _split("""
    Lisbon Porto Bergen Oslo Malmo Aarhus Tallinn Riga Gdansk Hamburg Bremen Antwerp Ghent Calais Brest Nantes Bilbao Cadiz
    Genoa Naples Trieste Split Corfu Patras Izmir Varna Odessa Cork Galway Dover Leith Hull Bristol Plymouth Boston Halifax
    Quebec Havana Lima Santos Dakar Accra Lagos Durban Mombasa Aden Muscat Karachi Mumbai Colombo Chennai Penang Manila
    Osaka Kobe Busan Dalian Hobart Perth Dunedin Suva Cacilhas Almada Belem Cascais Sintra Evora Braga Faro Lagos Tavira
    Setubal Coimbra Aveiro
""")

GIVEN = _split("""
    Ana Maria Rui Ines Pedro Clara Nuno Sofia Tiago Marta Hugo Elena Ivan Olga Karim Leila Omar Amina Jonas Greta Lars
    Ingrid Sven Astrid Paul Marie Jean Claire Louis Emma Peter Anna Max Julia Felix Nora Adam Eva Marco Laura Paolo Giulia
    Diego Lucia Carlos Rosa Mateo Carmen Kenji Yuki Hana Ravi Priya Arjun Meera Chen Mei Tom Alice James Helen George Ruth
    Henry Grace Samuel Ada
""")

FAMILY = _split("""
    Duarte Silva Costa Pereira Santos Almeida Moreira Lopes Ferreira Novak Kovacs Horvath Petrov Ivanova Haddad Nasser
    Rahman Berg Lund Holm Dahl Strand Weber Fischer Wagner Becker Martin Bernard Moreau Fournier Rossi Conti Greco Marino
    Garcia Torres Vega Ramos Tanaka Mori Sato Kimura Sharma Patel Gupta Wong Chan Baker Turner Cooper Fisher Hughes Palmer
    Reid Murray Walsh
""")

MONTHS = _split("""
    January February March April May June July August September October November December
""")

DAYS = _split("""
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""")

UNITS = _split("""
    euros dollars pounds francs crowns metres litres tonnes kilometres minutes hours days kilograms degrees
""")

COUNTED = _split("""
    berths seats rooms beds windows doors lamps boats crates pages tables chairs books cameras workers members
""")

GLUE = _split("""
    the the the a an and and or of of in to to is are was were be been has have had it its this that these those with without
    for from by on at as not no all some any every each one two three who which where when what how they he she we you his her
    their our your will would can could may must should do does did before after then than so very only also more most about
    into over under up down out off near between through during until because if but there here both such other another same
    called kept made used open closed said says
""")

COLOURS = _split("""
    red green blue yellow black purple orange white grey brown pink
""")

HOLDERS = _split("""
    pier shed room floor shelf locker building hall gate platform dock bay
""")

FILLER = (
    "The wind was calm that day and nothing was reported.",
    "Visitors are asked to keep the way clear.",
    "This page was checked by two people and found to be in order.",
    "Please read the notes below before you begin.",
    "Work on the {quality} {thing} went on for some weeks.",
    "A {quality} {thing} stands beside the {thing}, as it always has.",
    "Some of the older papers about the {thing} were lost.",
    "People in {place} still talk about the {quality} {thing}.",
    "The weather in {place} was {noun} and the {thing} stayed shut.",
    "Nobody uses the {quality} {thing} in winter.",
    "For more about {noun} and {noun}, see the last page.",
    "All {noun} must be returned to the {thing} after use.",
    "It was a long {noun} for everyone at the {thing}.",
    "There is no {noun} without {noun}, as they say in {place}.",
    "The {noun} committee met twice and agreed on {noun}.",
    "During the {noun} season the {thing} is full of {noun}.",
    "In this section we describe the {thing} and its {noun}.",
    "General remarks on {noun}, {noun} and {noun}.",
    "Several letters from {place} mention the {noun}.",
    "The {thing} was painted again after the {noun}.",
)
