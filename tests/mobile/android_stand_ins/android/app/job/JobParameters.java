package android.app.job;

import android.os.PersistableBundle;

public class JobParameters {
    private final PersistableBundle extras;

    public JobParameters(PersistableBundle extras) {
        this.extras = extras;
    }

    public PersistableBundle getExtras() {
        return extras;
    }
}
